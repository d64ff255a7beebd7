/** The filters of the list of customers in the page's address. */

export const ORDERS = ["name", "-reject_rate", "-silent_nases", "-requests"] as const;
export type Order = (typeof ORDERS)[number];

export interface CustomersSearch {
  text?: string;
  sort?: Order;
}

export function readCustomersSearch(raw: Record<string, unknown>): CustomersSearch {
  const sort = ORDERS.find((each) => each === raw.sort);
  return {
    ...(typeof raw.text === "string" && raw.text ? { text: raw.text } : {}),
    ...(sort ? { sort } : {}),
  };
}

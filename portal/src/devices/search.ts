/** The filters of the device list in the page's address. */

export const STATUSES = ["active", "blocked", "discovered", "ignored"] as const;
export type Status = (typeof STATUSES)[number];

export interface DevicesSearch {
  text?: string;
  status?: Status;
}

export function readDevicesSearch(raw: Record<string, unknown>): DevicesSearch {
  const status = STATUSES.find((each) => each === raw.status);
  return {
    ...(typeof raw.text === "string" && raw.text ? { text: raw.text } : {}),
    ...(status ? { status } : {}),
  };
}

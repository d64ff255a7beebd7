import { type QueryKey, useInfiniteQuery } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";

export const PAGE_ROWS = 100;

/** Query parameters of one page of a list. */
export interface PageQuery {
  limit: number;
  /** Cursor: `next` of the previous page. Absent for the first page. */
  after?: string;
}

export interface ListPage {
  items: unknown[];
  next: string | null;
}

/** Read a list of the API page by page. `more` reads the next page, if there is one. */
export function usePages<P extends ListPage>(
  queryKey: QueryKey,
  fetchPage: (query: PageQuery, signal: AbortSignal) => Promise<{ data?: P }>,
  options: { limit?: number; refetchInterval?: number } = {},
) {
  const { limit = PAGE_ROWS, ...rest } = options;
  const found = useInfiniteQuery({
    queryKey,
    queryFn: async ({ pageParam, signal }) => {
      const { data } = await fetchPage({ limit, ...(pageParam ? { after: pageParam } : {}) }, signal);
      if (!data) throw new Error("the response has no body");
      return data;
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.next,
    ...rest,
  });
  const { data, hasNextPage, isFetchingNextPage, fetchNextPage } = found;
  const rows: P["items"] = useMemo(() => data?.pages.flatMap((page) => page.items) ?? [], [data]);
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  return { found, rows, more };
}

import { QueryClient } from "@tanstack/react-query";
import { isOffline, Problem } from "./problem";

const MAX_RETRIES = 3;

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      retry: (failures, error) =>
        failures < MAX_RETRIES && (isOffline(error) || (error instanceof Problem && error.isTemporary)),
      retryDelay: (failures, error) => {
        const wait = error instanceof Problem ? error.retryAfterSeconds * 1000 : 0;
        return Math.max(wait, 1000 * 2 ** failures);
      },
    },
    mutations: { retry: false },
  },
});

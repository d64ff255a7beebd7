/** An error response of the API (problem details, RFC 9457). */

import { withoutSteps } from "./advice";

export interface Mistake {
  place: string;
  detail: string;
  remedy: string;
}

export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly remedy: string;
  /** Name of the field that has the error; "" if the error is not about one field. */
  readonly place: string;
  readonly mistakes: readonly Mistake[];
  readonly requestId: string;
  readonly retryAfterSeconds: number;

  constructor(status: number, body: Record<string, unknown>, headers: Headers) {
    const detail = text(body.detail) || `The server responded with status ${status}.`;
    super(detail);
    this.name = "Problem";
    this.status = status;
    this.code = text(body.code);
    this.detail = detail;
    this.remedy = withoutSteps(text(body.remedy));
    this.place = text(body.place);
    this.mistakes = Array.isArray(body.mistakes) ? (body.mistakes as Mistake[]) : [];
    this.requestId = headers.get("x-request-id") ?? "";
    this.retryAfterSeconds = Number(headers.get("retry-after")) || 0;
  }

  /** Whether the same request can succeed later without a change. */
  get isTemporary(): boolean {
    return this.status === 429 || this.status === 503;
  }
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export async function readProblem(response: Response): Promise<Problem> {
  let body: unknown;
  try {
    body = await response.json();
  } catch {
    body = null;
  }
  return new Problem(response.status, (body ?? {}) as Record<string, unknown>, response.headers);
}

/** Whether the browser could not reach the server at all. */
export function isOffline(error: unknown): boolean {
  return error instanceof TypeError;
}

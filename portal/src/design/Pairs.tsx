import { Fragment, type ReactNode } from "react";

export interface Pair {
  name: string;
  /** Pairs without a value are not shown. */
  value: ReactNode;
}

export function Pairs({ pairs, className = "" }: { pairs: readonly Pair[]; className?: string }) {
  return (
    <dl className={`pairs ${className}`}>
      {pairs
        .filter((pair) => pair.value)
        .map((pair) => (
          <Fragment key={pair.name}>
            <dt>{pair.name}</dt>
            <dd>{pair.value}</dd>
          </Fragment>
        ))}
    </dl>
  );
}

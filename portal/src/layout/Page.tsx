import { type ReactNode, useEffect } from "react";

export interface PageProps {
  title: string;
  /** Text below the title. */
  sub?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

/** The frame of every page: title, actions, content. */
export function Page({ title, sub, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Admit`;
  }, [title]);
  return (
    <div className="page">
      <div className="page-head">
        <div>
          <h1>{title}</h1>
          {sub ? <div className="sub">{sub}</div> : null}
        </div>
        {actions ? <div className="row">{actions}</div> : null}
      </div>
      {children}
    </div>
  );
}

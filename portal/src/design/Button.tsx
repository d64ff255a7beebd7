import type { ReactNode } from "react";
import { Button as AriaButton, type ButtonProps as AriaButtonProps } from "react-aria-components";

export interface ButtonProps extends Omit<AriaButtonProps, "children" | "className"> {
  kind?: "normal" | "primary" | "danger" | "plain";
  icon?: ReactNode;
  /** Without children, `aria-label` is required. */
  children?: ReactNode;
  className?: string;
}

export function Button({ kind = "normal", icon, children, className = "", ...rest }: ButtonProps) {
  const classes = ["button", kind, children ? "" : "icon-only", className];
  return (
    <AriaButton {...rest} className={classes.filter(Boolean).join(" ")}>
      {icon}
      {children}
    </AriaButton>
  );
}

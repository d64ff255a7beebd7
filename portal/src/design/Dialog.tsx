import { X } from "lucide-react";
import type { ReactNode } from "react";
import { Dialog as AriaDialog, Heading, Modal, ModalOverlay } from "react-aria-components";
import { useTranslations } from "use-intl";
import { Button } from "./Button";

export interface DialogProps {
  isOpen: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  actions?: ReactNode;
  wide?: boolean;
  /** Whether Escape and a click outside leave the dialog open. */
  modal?: boolean;
}

export function Dialog({ isOpen, onClose, title, children, actions, wide, modal }: DialogProps) {
  return (
    <ModalOverlay
      className="overlay"
      isOpen={isOpen}
      onOpenChange={(open) => open || onClose()}
      isDismissable={!modal}
      isKeyboardDismissDisabled={modal}
    >
      <Modal className={wide ? "modal wide" : "modal"}>
        <AriaDialog className="dialog">
          <Heading slot="title" level={2}>
            {title}
          </Heading>
          {children}
          {actions ? <div className="actions">{actions}</div> : null}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}

export interface DrawerProps {
  isOpen: boolean;
  onClose: () => void;
  label: string;
  side?: "left" | "right";
  children: ReactNode;
}

/** A panel at the side of the window. On a phone, it fills the window. */
export function Drawer({ isOpen, onClose, label, side = "right", children }: DrawerProps) {
  return (
    <ModalOverlay
      className="drawer-overlay"
      isOpen={isOpen}
      onOpenChange={(open) => open || onClose()}
      isDismissable
    >
      <Modal className={`drawer ${side}`}>
        <AriaDialog className="dialog" aria-label={label}>
          {children}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}

export function CloseButton({ onPress }: { onPress: () => void }) {
  const t = useTranslations("common");
  return <Button kind="plain" icon={<X aria-hidden />} aria-label={t("close")} onPress={onPress} />;
}

export interface ConfirmProps {
  isOpen: boolean;
  onClose: () => void;
  title: string;
  /** Says what will happen, and to whom. */
  children: ReactNode;
  confirm: string;
  isPending?: boolean;
  onConfirm: () => void;
  danger?: boolean;
}

export function Confirm({
  isOpen,
  onClose,
  title,
  children,
  confirm,
  isPending,
  onConfirm,
  danger,
}: ConfirmProps) {
  const t = useTranslations("common");
  const actions = (
    <>
      <Button onPress={onClose}>{t("cancel")}</Button>
      <Button kind={danger ? "danger" : "primary"} isPending={isPending} onPress={onConfirm}>
        {confirm}
      </Button>
    </>
  );
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title={title} actions={actions}>
      {children}
    </Dialog>
  );
}

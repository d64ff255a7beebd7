import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { $api, type Schemas } from "../api/client";
import { Button } from "../design/Button";
import { Confirm } from "../design/Dialog";
import { ErrorMessage } from "../design/Message";
import { usePermissions } from "../layout/access";
import { RegisterDialog } from "./RegisterDialog";

interface DeviceActionsProps {
  tenant: string;
  mac: string;
  endpoint: Schemas["Endpoint"] | undefined;
  isUnknown: boolean;
}

/** The changes that the person may make to the device. */
export function DeviceActions({ tenant, mac, endpoint, isUnknown }: DeviceActionsProps) {
  const t = useTranslations("decision");
  const permissions = usePermissions(tenant);
  const queries = useQueryClient();
  const [dialog, setDialog] = useState<"" | "register" | "block" | "unblock">("");
  const done = () => {
    setDialog("");
    void queries.invalidateQueries();
  };
  const block = $api.useMutation("post", "/v1/tenants/{tenant}/endpoints/{mac}/block", { onSuccess: done });
  const unblock = $api.useMutation("post", "/v1/tenants/{tenant}/endpoints/{mac}/unblock", {
    onSuccess: done,
  });
  const params = { params: { path: { tenant, mac }, query: { wait: "live" as const } } };
  const name = endpoint?.name || mac;
  const needsApproval = isUnknown || endpoint?.status === "discovered" || endpoint?.status === "ignored";
  return (
    <>
      {needsApproval && permissions.has("endpoint.manage") ? (
        <Button kind="primary" onPress={() => setDialog("register")}>
          {t("register")}
        </Button>
      ) : null}
      {endpoint && endpoint.status !== "blocked" && permissions.has("endpoint.manage") ? (
        <Button onPress={() => setDialog("block")}>{t("block")}</Button>
      ) : null}
      {endpoint?.status === "blocked" && permissions.has("endpoint.unblock") ? (
        <Button onPress={() => setDialog("unblock")}>{t("unblock")}</Button>
      ) : null}
      <RegisterDialog
        tenant={tenant}
        mac={mac}
        isOpen={dialog === "register"}
        onClose={() => setDialog("")}
      />
      <Confirm
        isOpen={dialog === "block"}
        onClose={() => setDialog("")}
        title={t("blockTitle", { device: name })}
        confirm={t("block")}
        danger
        isPending={block.isPending}
        onConfirm={() => block.mutate(params)}
      >
        <p>{t("blockText", { tenant })}</p>
        {block.error ? <ErrorMessage error={block.error} /> : null}
      </Confirm>
      <Confirm
        isOpen={dialog === "unblock"}
        onClose={() => setDialog("")}
        title={t("unblockTitle", { device: name })}
        confirm={t("unblock")}
        isPending={unblock.isPending}
        onConfirm={() => unblock.mutate(params)}
      >
        <p>{t("unblockText")}</p>
        {unblock.error ? <ErrorMessage error={unblock.error} /> : null}
      </Confirm>
    </>
  );
}

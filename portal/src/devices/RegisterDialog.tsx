import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslations } from "use-intl";
import { $api } from "../api/client";
import { Problem } from "../api/problem";
import { Button } from "../design/Button";
import { Dialog } from "../design/Dialog";
import { SelectField, TextField } from "../design/Field";
import { ErrorMessage, Message } from "../design/Message";

const MAX_GROUPS = 100;
const NO_GROUP = "";
const FIELDS = new Set(["mac", "name", "groups"]);

export interface RegisterDialogProps {
  tenant: string;
  /** MAC address of the device. Without it, the dialog asks for the address. */
  mac?: string;
  isOpen: boolean;
  onClose: () => void;
}

/** Approves a device by its MAC address, with a name and a group. */
export function RegisterDialog(props: RegisterDialogProps) {
  return props.isOpen ? <RegisterForm {...props} /> : null;
}

function RegisterForm({ tenant, mac: knownMac = "", onClose }: RegisterDialogProps) {
  const t = useTranslations("register");
  const queries = useQueryClient();
  const [mac, setMac] = useState(knownMac);
  const [name, setName] = useState("");
  const [group, setGroup] = useState(NO_GROUP);
  const groups = $api.useQuery("get", "/v1/tenants/{tenant}/endpoint-groups", {
    params: { path: { tenant }, query: { limit: MAX_GROUPS } },
  });
  const create = $api.useMutation("post", "/v1/tenants/{tenant}/endpoints", {
    onSuccess: () => {
      onClose();
      void queries.invalidateQueries();
    },
  });
  const problem = create.error instanceof Problem ? create.error : null;
  const isRandom = problem?.code === "random-address";
  const at = (field: string) => (problem?.place.startsWith(field) && !isRandom ? problem.detail : "");
  const submit = (allowRandom: boolean) =>
    create.mutate({
      params: { path: { tenant }, query: { wait: "live" } },
      body: { mac, name, groups: group === NO_GROUP ? [] : [group], allow_random: allowRandom },
    });
  const options = [
    { id: NO_GROUP, label: t("noGroup") },
    ...(groups.data?.items ?? []).map((each) => ({ id: each.name, label: each.name })),
  ];
  return (
    <Dialog
      isOpen
      onClose={onClose}
      title={t("title")}
      actions={
        <>
          <Button onPress={onClose}>{t("cancel")}</Button>
          <Button kind="primary" isPending={create.isPending} onPress={() => submit(isRandom)}>
            {isRandom ? t("confirmRandom") : t("confirm")}
          </Button>
        </>
      }
    >
      <p className="muted">{t("text", { tenant })}</p>
      <TextField
        label={t("mac")}
        value={mac}
        onChange={setMac}
        isDisabled={knownMac !== ""}
        error={at("mac")}
        hint={t("macHint")}
        autoFocus={knownMac === ""}
      />
      <TextField
        label={t("name")}
        value={name}
        onChange={setName}
        error={at("name")}
        autoFocus={knownMac !== ""}
      />
      <SelectField label={t("group")} value={group} options={options} onChange={setGroup} />
      {isRandom ? (
        <Message tone="warn" title={t("randomTitle")}>
          <p>{t("randomText")}</p>
        </Message>
      ) : null}
      {create.error && !isRandom && !(problem && FIELDS.has(problem.place)) ? (
        <ErrorMessage error={create.error} />
      ) : null}
    </Dialog>
  );
}

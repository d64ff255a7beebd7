import { Link, useNavigate } from "@tanstack/react-router";
import { Building2, Search } from "lucide-react";
import { useTranslations } from "use-intl";
import { $api } from "../api/client";
import { Button } from "../design/Button";
import { Empty, ErrorMessage, Skeleton } from "../design/Message";
import { Time } from "../design/Time";
import { Page } from "../layout/Page";
import type { CustomersSearch } from "./search";

export function CustomersPage({ search }: { search: CustomersSearch }) {
  const t = useTranslations("customers");
  const navigate = useNavigate();
  const found = $api.useQuery("get", "/v1/tenants", {
    params: { query: { limit: 100, ...(search.text ? { text: search.text } : {}) } },
  });
  return (
    <Page title={t("title")}>
      <search className="filters">
        <div className="with-icon">
          <Search aria-hidden />
          <input
            className="input"
            type="search"
            aria-label={t("find")}
            placeholder={t("find")}
            defaultValue={search.text}
            onChange={(event) =>
              void navigate({ to: "/", search: { text: event.target.value }, replace: true })
            }
          />
        </div>
      </search>
      {found.error ? <ErrorMessage error={found.error} retry={() => void found.refetch()} /> : null}
      <div className="card">
        {found.isPending ? (
          <div className="body">
            <Skeleton />
          </div>
        ) : found.data?.items.length === 0 ? (
          <Empty
            icon={<Building2 aria-hidden />}
            title={search.text ? t("noneFound") : t("emptyTitle")}
            action={
              search.text ? <Button onPress={() => void navigate({ to: "/" })}>{t("clear")}</Button> : null
            }
          >
            {search.text ? null : t("emptyText")}
          </Empty>
        ) : (
          <div className="table-box">
            <table className="table">
              <thead>
                <tr>
                  <th>{t("name")}</th>
                  <th>{t("state")}</th>
                  <th>{t("created")}</th>
                </tr>
              </thead>
              <tbody>
                {found.data?.items.map((each) => (
                  <tr key={each.id}>
                    <td>
                      <Link to="/t/$tenant" params={{ tenant: each.slug }}>
                        {each.name || each.slug}
                      </Link>
                    </td>
                    <td>{each.status}</td>
                    <td>
                      <Time at={each.created_at} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </div>
    </Page>
  );
}

import { useTranslations } from "use-intl";

export interface HourCount {
  permitted: number;
  rejected: number;
}

const WIDTH = 96;
const HEIGHT = 24;

/** Requests of the last hours as small bars: admitted below, rejected on top. */
export function Sparkline({ hours }: { hours: readonly HourCount[] }) {
  const t = useTranslations("sparkline");
  const most = Math.max(1, ...hours.map((hour) => hour.permitted + hour.rejected));
  const step = WIDTH / Math.max(1, hours.length);
  const all = hours.reduce((sum, hour) => sum + hour.permitted + hour.rejected, 0);
  return (
    <svg
      width={WIDTH}
      height={HEIGHT}
      role="img"
      aria-label={t("label", { count: all, hours: hours.length })}
    >
      {hours.map((hour, index) => {
        const rejected = (hour.rejected / most) * HEIGHT;
        const permitted = (hour.permitted / most) * HEIGHT;
        const x = index * step;
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: the index is the hour
          <g key={index}>
            <rect x={x} y={HEIGHT - permitted} width={step - 1} height={permitted} fill="var(--chart-good)" />
            <rect
              x={x}
              y={HEIGHT - permitted - rejected}
              width={step - 1}
              height={rejected}
              fill="var(--chart-bad)"
            />
          </g>
        );
      })}
    </svg>
  );
}

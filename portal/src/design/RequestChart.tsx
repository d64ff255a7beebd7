import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface ChartPoint {
  /** Start of the interval. */
  start: string;
  permitted: number;
  quarantined: number;
  rejected: number;
}

export interface RequestChartProps {
  points: readonly ChartPoint[];
  labels: { time: string; permitted: string; quarantined: string; rejected: string };
  /** Describes the chart for screen readers. */
  summary: string;
}

const HEIGHT = 220;

/** Requests by interval, one line for each result. */
export function RequestChart({ points, labels, summary }: RequestChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const { time, permitted, quarantined, rejected } = labels;
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const style = getComputedStyle(element);
    const color = (name: string) => resolveColor(element, style.getPropertyValue(name));
    const axis = { stroke: color("--text-2"), grid: { stroke: color("--line"), width: 1 } };
    const chart = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        series: [
          { label: time },
          { label: permitted, stroke: color("--chart-good"), width: 2 },
          { label: quarantined, stroke: color("--chart-warn"), width: 2 },
          { label: rejected, stroke: color("--chart-bad"), width: 2 },
        ],
        axes: [axis, { ...axis, size: 56 }],
        scales: { y: { range: (_, __, most) => [0, Math.max(4, most * 1.1)] } },
      },
      [
        points.map((point) => Date.parse(point.start) / 1000),
        points.map((point) => point.permitted),
        points.map((point) => point.quarantined),
        points.map((point) => point.rejected),
      ],
      element,
    );
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [points, time, permitted, quarantined, rejected]);
  return <div ref={box} role="img" aria-label={summary} />;
}

/** The colour that the browser uses. A canvas does not know `light-dark()`. */
function resolveColor(element: HTMLElement, value: string): string {
  const probe = document.createElement("span");
  probe.style.color = value;
  element.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}

import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";
import "./rows.css";

const OVERSCAN_ROWS = 12;
// The list asks for more rows when so few rows are left below the window.
const ROWS_BEFORE_END = 20;

export interface Column {
  id: string;
  label: string;
  className?: string;
}

export interface VirtualRowsProps<T> {
  label: string;
  columns: readonly Column[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  /** Cells in the order of `columns`. One of them contains the link that opens the row. */
  renderCells: (row: T) => ReactNode[];
  rowHeight?: number;
  isSelected?: (row: T) => boolean;
  onEndReached?: () => void;
}

/** A table that renders only the rows in the window, so that it stays fast with many rows. */
export function VirtualRows<T>(props: VirtualRowsProps<T>) {
  const { rows, columns, rowHeight = 44, onEndReached } = props;
  const box = useRef<HTMLDivElement>(null);
  const [offset, setOffset] = useState(0);
  useLayoutEffect(() => setOffset(box.current?.offsetTop ?? 0), []);
  const virtualizer = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => rowHeight,
    overscan: OVERSCAN_ROWS,
    scrollMargin: offset,
    getItemKey: (index) => props.rowKey(rows[index] as T),
  });
  const items = virtualizer.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (rows.length > 0 && last >= rows.length - ROWS_BEFORE_END) onEndReached?.();
  }, [last, rows.length, onEndReached]);
  return (
    <div className="rows" role="table" aria-label={props.label} aria-rowcount={-1}>
      <div role="rowgroup">
        <div className="rows-head" role="row">
          {columns.map((column) => (
            <span
              key={column.id}
              role="columnheader"
              className={`cell ${column.id} ${column.className ?? ""}`}
            >
              {column.label}
            </span>
          ))}
        </div>
      </div>
      <div ref={box} role="rowgroup" className="rows-body" style={{ height: virtualizer.getTotalSize() }}>
        {items.map((item) => {
          const row = rows[item.index] as T;
          const key = props.rowKey(row);
          const cells = props.renderCells(row);
          return (
            <div
              key={key}
              role="row"
              aria-rowindex={item.index + 2}
              className="rows-row"
              data-selected={props.isSelected?.(row) || undefined}
              style={{ height: item.size, transform: `translateY(${item.start - offset}px)` }}
            >
              {columns.map((column, index) => (
                <span key={column.id} role="cell" className={`cell ${column.id} ${column.className ?? ""}`}>
                  {cells[index]}
                </span>
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
}

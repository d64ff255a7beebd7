export function Timeline(_: { tenant: string; mac: string }) {
  return null;
}

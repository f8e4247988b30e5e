// One icon for each kind of node. They add nothing that the text does not say, so readers of screens skip them.
const PATHS: Record<string, string> = {
  Call: "M9.8 2.6a3.6 3.6 0 0 0-3.4 4.9L2 11.9 4.1 14l4.4-4.4a3.6 3.6 0 0 0 4.7-4.6l-2.2 2.2-2-2 2.2-2.2a3.6 3.6 0 0 0-1.4-.4z",
  Compute: "M6.5 13.5 8.8 3.8Q9.2 2.3 10.8 2.6M4.8 7h5M11 9.2l3 4.3M14 9.2l-3 4.3",
  Sleep: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2 1.6",
  Wait: "M5.5 3v10M10.5 3v10",
  Block: "M2.5 2.5h11v11h-11zM5.5 6h5M5.5 10h5",
  Branch: "M8 2v4L4 10v4M8 6l4 4v4M2.7 12.4 4 14l1.3-1.6M10.7 12.4 12 14l1.3-1.6",
  Map: "M3 3.5h10M3 8h10M3 12.5h10M1.5 3.5h.1M1.5 8h.1M1.5 12.5h.1",
  Loop: "M13 8a5 5 0 1 1-1.6-3.7M13.2 2v2.8h-2.8",
  Validate: "M8 1.8 13 3.6v4c0 3.2-2.2 5.4-5 6.6-2.8-1.2-5-3.4-5-6.6v-4zM5.8 7.8l1.7 1.7 3-3.2",
  Require: "M8 2 14.2 13H1.8zM8 6.2v3M8 11.2v.1",
  Program: "M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5",
  Function: "M10.6 3.2c-2-.6-2.8.3-3.1 2L6.1 12c-.3 1.4-1.1 1.8-2.2 1.4M5 7h5",
  Agent: "M3.5 5.5h9v7h-9zM8 5.5V3M6.2 8.3v1.2M9.8 8.3v1.2M1.8 8v2.4M14.2 8v2.4",
};

export function Icon({ kind }: { kind: string }) {
  const path = PATHS[kind];
  return path === undefined ? null : (
    <svg className="kind" data-kind={kind} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true"><path d={path} /></svg>
  );
}

// How every text comes into the page: as React takes it, but what would hide or turn around the text beside it is shown
// as U+FFFD. An approval for `a\u202egpj.exe` must not read as one for `aexe.jpg`. What is copied or typed stays itself.
// Whatever is written as JSX comes by here (tsconfig.json, vite.config.ts: jsxImportSource), so no view can forget it.
import * as react from "react/jsx-runtime";

export type { JSX } from "react/jsx-runtime";
export const Fragment = react.Fragment;

/** Control characters but tab and ends of lines, and those that set the direction of what follows. */
const MISLEADING = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;
const SHOWN = ["title", "aria-label", "placeholder"];

export const plain = (text: string) => text.replace(MISLEADING, "\ufffd");

function plainly(child: unknown): unknown {
  return typeof child === "string" ? plain(child) : Array.isArray(child) ? child.map(plainly) : child;
}

function shown(type: unknown, props: Record<string, unknown>): Record<string, unknown> {
  if (typeof type !== "string" && type !== react.Fragment) return props;  // a component shows it through others
  const made = { ...props };
  if ("children" in made) made.children = plainly(made.children);
  for (const name of SHOWN) if (typeof made[name] === "string") made[name] = plain(made[name]);
  return made;
}

export const jsx: typeof react.jsx = (type, props, key) => react.jsx(type, shown(type, props as Record<string, unknown>), key);
export const jsxs: typeof react.jsxs = (type, props, key) => react.jsxs(type, shown(type, props as Record<string, unknown>), key);

// Dark and light: as the system says, unless one was chosen here.
import { useEffect, useState } from "react";

export type Theme = "auto" | "light" | "dark";
const system = matchMedia("(prefers-color-scheme: dark)");
const kept = (): Theme => {
  const value = localStorage.getItem("theme");
  return value === "light" || value === "dark" ? value : "auto";
};
const shown = (theme: Theme) => (theme === "auto" ? (system.matches ? "dark" : "light") : theme);
const show = (theme: Theme) => (document.documentElement.dataset.theme = shown(theme));
show(kept());

export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState(kept);
  useEffect(() => {
    show(theme);
    localStorage.setItem("theme", theme);
    const change = () => show(theme);
    system.addEventListener("change", change);
    return () => system.removeEventListener("change", change);
  }, [theme]);
  return [theme, () => setTheme(theme === "auto" ? (system.matches ? "light" : "dark") : theme === "dark" ? "light" : "dark")];
}

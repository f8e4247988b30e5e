/** The path under which the page is served: that of its own script, without `/assets/NAME.js`. */
export const BASE = new URL("..", import.meta.url).pathname.replace(/\/$/, "");

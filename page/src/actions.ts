// What can be done with a run now. The server says, so that no button is offered that it would refuse.
import { ask, runAt } from "./api";
import { useAsked } from "./parts";

type Action = "stop" | "resume" | "retry" | "undo" | "fork";

/** With `node`, what can be done from there. Asked for again when `about`, the state of the run, is another. */
export function useActions(run: string, node: string | null, about: string | null) {
  const query = node === null ? "" : `?node=${encodeURIComponent(node)}`;
  const { found } = useAsked(
    about === null ? null : (signal) => ask<{ actions: Action[] }>(runAt(run, `/actions${query}`), undefined, signal), [run, node, about],
  );
  return (action: Action) => found?.actions.includes(action) ?? false;
}

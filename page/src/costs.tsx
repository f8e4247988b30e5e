// The model cost of a run, by node.
import { dollars, tokens, total, type Cost } from "./cost";

export function Costs({ of, choose }: { of: Cost[]; choose: (place: string) => void }) {
  const all = total(of);
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Costs">
      <table className="costs">
        <thead>
          <tr>
            {["Node", "Turns", "Tokens in", "From cache", "Tokens out", "Cost"].map((name, i) => (
              <th key={name} scope="col" className={i ? "number" : undefined}>{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {of.map((one) => (
            <tr key={one.place}>
              <th scope="row"><button className="plain" onClick={() => choose(one.place)}>{one.place}</button></th>
              <Numbers of={one} />
            </tr>
          ))}
        </tbody>
        <tfoot><tr><th scope="row">Total, {tokens(all).toLocaleString()} tokens</th><Numbers of={all} /></tr></tfoot>
      </table>
      <p className="hint">Estimated from list prices when the run was made. Recorded turns that were reused cost nothing.</p>
    </div>
  );
}

function Numbers({ of }: { of: Cost }) {
  return (
    <>
      {[of.turns, of.input, of.cached, of.output].map((n, i) => <td key={i} className="number">{n.toLocaleString()}</td>)}
      <td className="number">{dollars(of)}</td>
    </>
  );
}

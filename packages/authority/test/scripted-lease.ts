// A lease whose answers the test sets; lease.etcd.test.ts uses a real one.
import { type Candidates } from "../src/lease/candidates.ts";
import { type LeaseSource, type LeaseTerm, type LeaseView } from "../src/lease/view.ts";

export class ScriptedLease implements LeaseSource {
  view: LeaseView = { kind: "unread" };
  failure: string | null = null;
  promotable: Candidates = { kind: "unknown", reason: "the test has not set it" };
  wakes = 0;
  confirmed: LeaseTerm[] = [];
  isStopped = false;
  #onChange: () => void = () => undefined;

  start(onChange: () => void): void {
    this.#onChange = onChange;
  }

  stop(): void {
    this.isStopped = true;
  }

  wake(): void {
    this.wakes++;
  }

  confirm(term: LeaseTerm): Promise<boolean> {
    this.confirmed.push(term);
    const { view } = this;
    return Promise.resolve(
      view.kind === "held" && view.term.node === term.node && view.term.revision === term.revision,
    );
  }

  async candidates(term: LeaseTerm): Promise<Candidates | null> {
    return (await this.confirm(term)) ? this.promotable : null;
  }

  /** Sets the next answer. */
  says(view: LeaseView): void {
    this.view = view;
    this.#onChange();
  }

  names(node: string, validUntilMs: number, revision = "1"): void {
    this.says({ kind: "held", term: { node, revision }, askedAtMs: 0, validUntilMs });
  }
}

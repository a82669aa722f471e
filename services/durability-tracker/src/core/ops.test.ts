// The small operations that scripts are made of. Holds no tests; play.test.ts says what each does.

/** How often each operation is drawn. The first is what a script shrinks to. */
const WEIGHTS = {
  rest: 1,
  // Gateways and their clients.
  commit: 3,
  commitAnywhere: 1,
  retry: 1,
  read: 2,
  intent: 1,
  acknowledge: 3,
  announce: 2,
  present: 1,
  // Nodes and streams.
  noise: 1,
  flush: 2,
  stream: 2,
  connect: 1,
  cut: 1,
  linger: 1,
  reap: 1,
  restartReplica: 1,
  clone: 1,
  crash: 1,
  cleanRestart: 1,
  promote: 1,
  command: 1,
  mint: 2,
  // What the tracker hears, and when.
  reigns: 2,
  unsettle: 1,
  positions: 3,
  probe: 3,
  holdPositions: 1,
  holdProbe: 1,
  deliver: 1,
  repeat: 1,
  answer: 2,
  holdAnswer: 1,
  helped: 1,
  tick: 1,
  restart: 1,
  // Whole scenes, so that scripts get anywhere.
  look: 4,
  busy: 3,
  catchUp: 3,
  failover: 2,
  crashOver: 2,
  rejoin: 2,
  follow: 1,
  close: 3,
  revert: 1,
};

export interface Op {
  readonly op: keyof typeof WEIGHTS;
  readonly a: number;
  readonly b: number;
}

export const OPS = (Object.entries(WEIGHTS) as [Op["op"], number][]).flatMap(([op, weight]) =>
  Array.from({ length: weight }, () => op),
);

// What the trackers of a system say about the current epoch: for operators, who name to a new
// primary what trackers remember, and for tests that wait until a failover is over.

const ASK_LIMIT_MS = 1_500;

export interface TrackerView {
  readonly region: string;
  readonly answers: boolean;
  /**
   * The node of the epoch that is current by this tracker; null when it follows none, or does not
   * answer.
   */
  readonly node: string | null;
  /** By level: the offset up to which all is durable by this tracker's word; null as `node` is. */
  readonly marks: Readonly<Record<string, bigint>> | null;
  /** Every epoch that it knows. */
  readonly epochs: readonly string[];
}

/** Of a system, what is needed to ask its trackers. */
interface TrackerUrls {
  readonly regions: readonly string[];
  tracker(region: string): { readonly url: string };
}

interface MarksReply {
  readonly marks: { readonly epoch: string; readonly levels: Readonly<Record<string, string>> } | null;
  readonly epochs: readonly { readonly id: string; readonly node: string }[];
}

/** Of all regions unless some are named. A tracker that is silent for 1.5 s does not answer. */
export async function trackerViews(
  system: TrackerUrls,
  regions = system.regions,
  apiKey?: string,
): Promise<TrackerView[]> {
  return Promise.all(regions.map((region) => ask(system, region, apiKey)));
}

async function ask(system: TrackerUrls, region: string, apiKey?: string): Promise<TrackerView> {
  try {
    const signal = AbortSignal.timeout(ASK_LIMIT_MS);
    const response = await fetch(`${system.tracker(region).url}/v1/durability/marks`, {
      headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
      signal,
    });
    const { marks, epochs } = (await response.json()) as MarksReply;
    const currentEpoch = marks === null ? undefined : epochs.find(({ id }) => id === marks.epoch);
    return {
      region,
      answers: true,
      node: currentEpoch?.node ?? null,
      epochs: epochs.map(({ id }) => id),
      marks: marks && Object.fromEntries(Object.entries(marks.levels).map(([k, v]) => [k, BigInt(v)])),
    };
  } catch {
    return { region, answers: false, node: null, marks: null, epochs: [] };
  }
}

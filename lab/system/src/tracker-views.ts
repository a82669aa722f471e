// What the trackers of a system report about the current epoch: for operators, who name all known
// epochs to a new primary, and for tests that wait for the end of a failover.

const ASK_LIMIT_MS = 1_500;

export interface TrackerView {
  readonly region: string;
  readonly answers: boolean;
  /**
   * The node of the epoch that the tracker takes for current; null when it follows none, or does
   * not answer.
   */
  readonly node: string | null;
  /** By level: the tracker's mark; null when `node` is. */
  readonly marks: Readonly<Record<string, bigint>> | null;
  /** Every epoch that the tracker knows. */
  readonly epochs: readonly string[];
}

/** The part of a system that is needed to ask its trackers. */
interface TrackerUrls {
  readonly regions: readonly string[];
  tracker(region: string): { readonly url: string };
}

interface MarksReply {
  readonly marks: { readonly epoch: string; readonly levels: Readonly<Record<string, string>> } | null;
  readonly epochs: readonly { readonly id: string; readonly node: string }[];
}

/** Default: all regions. A tracker that is silent for 1.5 s counts as not answering. */
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

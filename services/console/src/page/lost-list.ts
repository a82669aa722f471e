// What the tracker lists as lost, and the export with contents.
import type { LostDetails, LostList } from "@highwater/protocol";
import type { Api } from "./api.ts";

export const lostPath = (after: string, limit: number): string =>
  `/v1/lost?${new URLSearchParams({ limit: String(limit), ...(after === "" ? {} : { after }) }).toString()}`;

const PAGE = 1_000;

/** Each loss as a line of JSON, oldest first. `withContents`: the audit log gets each reading. */
export async function exportLost(api: Pick<Api, "get">, withContents: boolean): Promise<string> {
  const lines: string[] = [];
  for (let next: string | null = ""; next !== null;) {
    const page: LostList = await api.get<LostList>(lostPath(next, PAGE));
    for (const each of page.lost) {
      const line: LostDetails =
        withContents && each.contents === "kept"
          ? await api.get<LostDetails>(`/v1/lost/${each.id}`)
          : { ...each, kept: null };
      lines.push(`${JSON.stringify(line)}\n`);
    }
    ({ next } = page);
  }
  return lines.join("");
}

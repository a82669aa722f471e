// One JSON object per event and line.
export { type Log } from "@highwater/service";

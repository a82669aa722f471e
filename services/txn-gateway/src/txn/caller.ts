// Who asks, and until when the answer is wanted.
export { type Caller } from "@highwater/service";

// The API key of this process, for a system that asks for one.
let key: string | undefined;

export function useApiKey(apiKey: string | undefined): void {
  key = apiKey;
}

/** For clients of the SDK. */
export const credential = (apiKey = key): { apiKey?: string } => (apiKey === undefined ? {} : { apiKey });

/** For requests without it. */
export const authorization = (apiKey = key): { authorization?: string } =>
  apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };

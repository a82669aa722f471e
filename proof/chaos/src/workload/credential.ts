// The API key of this process, for a system that requires one.
let key: string | undefined;

export function useApiKey(apiKey: string | undefined): void {
  key = apiKey;
}

/** Options for clients of the SDK. */
export const credential = (apiKey = key): { apiKey?: string } => (apiKey === undefined ? {} : { apiKey });

/** Headers for requests without the SDK. */
export const authorization = (apiKey = key): { authorization?: string } =>
  apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };

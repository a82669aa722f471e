// The API key of this process, for a system that asks for one.
let key: string | undefined;

export function useApiKey(apiKey: string | undefined): void {
  key = apiKey;
}

/** For clients of the SDK. */
export const credential = (): { apiKey?: string } => (key === undefined ? {} : { apiKey: key });

/** For requests without it. */
export const authorization = (): { authorization?: string } =>
  key === undefined ? {} : { authorization: `Bearer ${key}` };

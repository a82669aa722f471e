// One JSON line per event on standard error.
import { type Clock } from "@highwater/store";

export type Fields = Readonly<Record<string, unknown>>;

export interface Log {
  info(message: string, fields?: Fields): void;
  warn(message: string, fields?: Fields): void;
  error(message: string, fields?: Fields): void;
}

export function jsonLog(service: string, clock: Clock, write: (line: string) => void): Log {
  const line =
    (level: string) =>
    (message: string, fields: Fields = {}) => {
      write(
        JSON.stringify({ at: new Date(clock.wallMs()).toISOString(), level, service, message, ...fields }) +
          "\n",
      );
    };
  return { info: line("info"), warn: line("warn"), error: line("error") };
}

// Who runs a command on this machine, for the audit log.
import { hostname, userInfo } from "node:os";

/**
 * `USER@HOST`. A user without an entry in /etc/passwd has no name, which is usual in containers:
 * then `uid-NUMBER@HOST`. `lookUp` is for tests.
 */
export function operatorHere(lookUp: () => { readonly username: string } = userInfo): string {
  return `${userName(lookUp)}@${hostname()}`;
}

function userName(lookUp: () => { readonly username: string }): string {
  try {
    return lookUp().username;
  } catch (cause) {
    const uid = process.getuid?.();
    if (uid === undefined) throw cause;
    return `uid-${String(uid)}`;
  }
}

// Names of headers that both sides of a wire, or what lies between them, must spell alike.

/**
 * Of an answer that refuses a request before anything of it was looked at, because the service
 * starts or shuts down: a proxy in front of several services may send it to another one, and
 * nothing can have been done twice.
 */
export const UNSERVED_HEADER = "highwater-unserved";

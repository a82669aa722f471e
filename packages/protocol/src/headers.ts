// Names of HTTP headers that both sides of a wire, or a proxy between them, have to share.

/**
 * Marks a refusal by a service that starts or shuts down, and that has looked at nothing of the
 * request. A proxy in front of several services may send the request to another one: nothing can
 * have been done twice.
 */
export const UNSERVED_HEADER = "highwater-unserved";

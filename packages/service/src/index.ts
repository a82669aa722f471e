// What the gateway and the tracker share as services: who calls, the settings of a process, the shape of errors over HTTP.
export {};

// Metrics of every service as a process, and of its settings.
import { counter, gauge } from "../definition.ts";

export const PROCESS = {
  info: gauge("highwater_service_info", {
    labels: {
      service: ["txn-gateway", "durability-tracker"],
      name: "the name in its configuration",
      region: "its region",
    },
    help: "Always 1; its labels say which service this is.",
    question: "Which services run, and in which region? Joined to the others by `instance`.",
  }),
  started: gauge("process_start_time_seconds", {
    unit: "seconds",
    help: "When the process started, since 1970.",
    question: "Was it restarted?",
  }),
  cpu: counter("process_cpu_seconds_total", {
    unit: "seconds",
    help: "Processor time of the process, user and system.",
    question: "How much of a core does it use?",
  }),
  memory: gauge("process_resident_memory_bytes", {
    unit: "bytes",
    help: "Resident memory of the process.",
    question: "Does its memory grow?",
  }),
  heap: gauge("nodejs_heap_size_used_bytes", {
    unit: "bytes",
    help: "Of the JavaScript heap, in use.",
    question: "Is it the heap that grows?",
  }),
  loopActive: counter("nodejs_eventloop_active_seconds_total", {
    unit: "seconds",
    help: "Time in which the event loop was busy; its rate is the utilisation.",
    question: "Is the one thread of the service its limit?",
  }),
  loopDelay: gauge("nodejs_eventloop_delay_seconds", {
    labels: { quantile: ["0.5", "0.99", "1"] },
    unit: "seconds",
    help: "How late timers ran since the last scrape, by quantile.",
    question: "Does something hold the event loop up?",
  }),
  certificateExpires: gauge("highwater_tls_certificate_expires_seconds", {
    unit: "seconds",
    help: "When the first certificate of the chain that the service shows expires, since 1970.",
    question: "Must a certificate be renewed?",
    only: "with TLS",
  }),
  topologyReloads: counter("highwater_topology_reloads_total", {
    labels: { outcome: ["taken", "refused"] },
    help: "New contents of the topology's file, by what became of them.",
    question: "Was a change of the levels taken?",
    only: "with a topology in a file",
  }),
  topologyRefused: gauge("highwater_topology_refused", {
    help: "1 while the topology's file holds something that this service has refused.",
    question: "Does somebody have to mend the file?",
    only: "with a topology in a file",
  }),
} as const;

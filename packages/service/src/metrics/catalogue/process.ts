// Metrics of every service as a process, and of its settings.
import { counter, gauge } from "../definition.ts";

export const PROCESS = {
  info: gauge("highwater_service_info", {
    labels: {
      service: ["txn-gateway", "durability-tracker"],
      name: "the name in its configuration",
      region: "its region",
    },
    help: "Always 1. The labels name the service.",
    question: "Which services run, and in which region? Join it to other metrics by `instance`.",
  }),
  started: gauge("process_start_time_seconds", {
    unit: "seconds",
    help: "Start of the process, in seconds since 1970.",
    question: "Was the service restarted?",
  }),
  cpu: counter("process_cpu_seconds_total", {
    unit: "seconds",
    help: "Processor time of the process, user and system.",
    question: "How much of a core does the service use?",
  }),
  memory: gauge("process_resident_memory_bytes", {
    unit: "bytes",
    help: "Resident memory of the process.",
    question: "Does the service's memory grow?",
  }),
  heap: gauge("nodejs_heap_size_used_bytes", {
    unit: "bytes",
    help: "Used part of the JavaScript heap.",
    question: "Does the heap grow?",
  }),
  loopActive: counter("nodejs_eventloop_active_seconds_total", {
    unit: "seconds",
    help: "Time for which the event loop was busy. The rate is its utilisation.",
    question: "Is the service's only thread the bottleneck?",
  }),
  loopDelay: gauge("nodejs_eventloop_delay_seconds", {
    labels: { quantile: ["0.5", "0.99", "1"] },
    unit: "seconds",
    help: "How late timers ran since the last scrape, by quantile.",
    question: "Does something block the event loop?",
  }),
  certificateExpires: gauge("highwater_tls_certificate_expires_seconds", {
    unit: "seconds",
    help: "Expiry of the service's own certificate, the first of its chain, in seconds since 1970.",
    question: "Must a certificate be renewed?",
    only: "with TLS",
  }),
  topologyReloads: counter("highwater_topology_reloads_total", {
    labels: { outcome: ["taken", "refused"] },
    help: "Changes of the topology file, by whether the service took or refused them.",
    question: "Did the service take a change of the levels?",
    only: "with a topology in a file",
  }),
  topologyRefused: gauge("highwater_topology_refused", {
    help: "1 while this service refuses the content of the topology file.",
    question: "Does the file need a correction?",
    only: "with a topology in a file",
  }),
} as const;

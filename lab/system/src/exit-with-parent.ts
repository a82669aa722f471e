// Preloaded into every service that a dev system starts: the service exits when the process that
// started it has ended.
process.on("disconnect", () => {
  process.exit(0);
});
process.channel?.unref();

// Preloaded into every service that a dev system starts: when the process that started it is gone,
// so is the service.
process.on("disconnect", () => {
  process.exit(0);
});
process.channel?.unref();

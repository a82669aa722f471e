// The SDK runs as it is installed, not bundled: it keeps connections and streams open.
export default { serverExternalPackages: ["@highwater/sdk"] };

// The client side of SCRAM-SHA-256, which node-postgres exports without types.
declare module "pg/lib/crypto/sasl.js" {
  interface ScramSession {
    readonly mechanism: string;
    readonly response: string;
  }
  const sasl: {
    startSession(mechanisms: readonly string[]): ScramSession;
    continueSession(session: ScramSession, password: string, serverData: string): Promise<void>;
    finalizeSession(session: ScramSession, serverData: string): void;
  };
  export default sasl;
}

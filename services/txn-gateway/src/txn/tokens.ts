// Makes tokens of transactions, with the parent of the epoch and the deployment's MAC.
import { encodeToken, type EpochId, type TokenContent, type TokenSigner } from "@highwater/protocol";

export class Tokens {
  readonly #signer: TokenSigner;
  readonly #parentOf: (epoch: EpochId) => EpochId | null;

  constructor(signer: TokenSigner, parentOf: (epoch: EpochId) => EpochId | null) {
    this.#signer = signer;
    this.#parentOf = parentOf;
  }

  of({ kind, id, epoch, offset, attempt, owner }: Omit<TokenContent, "parent">): string {
    const content = { kind, id, epoch, offset, attempt, owner, parent: this.#parentOf(epoch) };
    return encodeToken(content, this.#signer);
  }
}

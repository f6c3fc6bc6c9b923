/** runGc: one bounded pass over one Space (docs/api.md, runGc). */
import { ApiError, countOf, type GcResult, HASH_BYTES, type Hash } from '@holdfast/protocol';
import { ROWS_PER_TRANSACTION_MAX } from '../batches.ts';
import type { Core } from '../core.ts';
import type { NodeRow, Space } from '../model.ts';
import { isDamage, isPageDamage, orIfDamaged } from '../store-failure.ts';
import { findAround, hashesOf, mayGo, takeDown } from './collect-around.ts';
import {
  type Claims,
  claimCandidates,
  claimNodes,
  type FinishedClaims,
  findLeftoverClaims,
  finishClaims,
  type LeftoversWanted,
} from './collection.ts';

/** Leftover claims first, then the oldest expired leases. An object that cannot be deleted blocks no other; the pass ends in 503. */
export async function runGc(core: Core, space: Space, maxNodes: number): Promise<GcResult> {
  const judgedAt = await core.clocks?.assertAgree();
  return new Pass(new Collection(core, space, judgedAt), maxNodes).run();
}

/** The effects of a pass on rows and objects; a plan (plan-gc.ts) applies them to rows alone and then undoes them. */
export interface PassSteps {
  findLeftovers(wanted: LeftoversWanted): Promise<Claims>;
  /** `from`: as of ClaimsWanted */
  claim(limit: number, from: number): Promise<Claims>;
  finish(claims: Claims): Promise<FinishedClaims>;
  /** for a Space with damaged rows; a plan has none, because damage ends its only transaction */
  around?(damage: unknown): Around;
}

interface Around {
  /** hashes of nodes that may go, page by page */
  find(): AsyncIterable<readonly Hash[]>;
  claim(hashes: readonly Hash[]): Promise<Claims>;
}

class Collection implements PassSteps {
  readonly #core: Core;
  readonly #space: Space;
  readonly #judgedAt: number | undefined;

  /** `judgedAt`: as of ClaimsWanted */
  constructor(core: Core, space: Space, judgedAt: number | undefined) {
    this.#core = core;
    this.#space = space;
    this.#judgedAt = judgedAt;
  }

  around(damage: unknown): Around {
    const [core, space, judgedAt] = [this.#core, this.#space, this.#judgedAt];
    return {
      find: async function* () {
        const start = Buffer.from(core.random.bytes(HASH_BYTES)).toString('hex');
        // The walk begins anywhere, so that in time all pages have their turn.
        const walk = { isWanted: mayGo, start, pagesMax: 200 };
        for await (const { rows } of findAround(core, space, walk)) yield hashesOf(rows);
      },
      claim: (hashes) => {
        const wanted = { hashes, judgedAt, areUndoubted: isPageDamage(damage) };
        return core.metadata.transact(space, claimNodes, wanted);
      },
    };
  }

  findLeftovers(wanted: LeftoversWanted): Promise<Claims> {
    return this.#core.metadata.transact(this.#space, findLeftoverClaims, wanted);
  }

  claim(limit: number, from: number): Promise<Claims> {
    const claim = (isDamaged: boolean): Promise<Claims> => {
      const uploads = this.#core.content.upload.kind;
      const wanted = { limit, uploads, isDamaged, judgedAt: this.#judgedAt, from };
      return this.#core.metadata.transact(this.#space, claimCandidates, wanted);
    };
    return orIfDamaged(
      () => claim(false),
      () => claim(true),
    );
  }

  finish(claims: Claims): Promise<FinishedClaims> {
    return finishClaims(this.#core, this.#space, claims);
  }
}

export class Pass {
  readonly #steps: PassSteps;
  readonly #maxNodes: number;
  readonly #onForgotten: (rows: readonly NodeRow[]) => void;
  #examined = 0;
  #deleted = 0;
  #reclaimedContentBytes = 0;
  #failed = 0;
  #failure: unknown;
  /** whether the last objects that were to be deleted all stayed */
  #isStuck = false;
  /** rows of the Space could not be read */
  #damage: unknown;

  constructor(
    steps: PassSteps,
    maxNodes: number,
    onForgotten: (rows: readonly NodeRow[]) => void = () => undefined,
  ) {
    this.#steps = steps;
    this.#maxNodes = maxNodes;
    this.#onForgotten = onForgotten;
  }

  async run(): Promise<GcResult> {
    try {
      await this.#finishLeftovers();
      await this.#takeCandidates();
    } catch (error) {
      if (!isDamage(error) || this.#steps.around === undefined) throw error;
      this.#damage = error;
      await this.#takeAround(this.#steps.around(error));
    }
    return this.#end();
  }

  async #takeAround({ find, claim }: Around): Promise<void> {
    this.#isStuck = false;
    const findRoom = (): number => (this.#isStuck ? 0 : this.#maxNodes - this.#examined);
    for await (const hashes of find()) {
      await takeDown(hashes, findRoom, async (few) => {
        const claims = await claim(few);
        const { forgotten, gone } = await this.#finish(claims);
        this.#examined += claims.found - gone;
        return forgotten;
      });
      if (findRoom() <= 0) return;
    }
  }

  /** Counts the claims that this pass finishes. It tries a claim that it cannot finish once, and does not count it. */
  async #finishLeftovers(): Promise<void> {
    const tried = new Set<Hash>();
    while (tried.size < this.#maxNodes && !this.#isStuck) {
      const limit = Math.min(this.#maxNodes - tried.size, ROWS_PER_TRANSACTION_MAX);
      const found = await this.#steps.findLeftovers({ limit, withHeld: true });
      const claimed = found.claimed.filter(({ hash }) => !tried.has(hash));
      if (claimed.length === 0) return;
      for (const { hash } of claimed) tried.add(hash);
      const { forgotten } = await this.#finish({ ...found, claimed });
      this.#examined += forgotten.length;
      if (found.found < limit) return;
    }
  }

  async #takeCandidates(): Promise<void> {
    // After a failure the store is probably unavailable, and a claimed node can no longer be read.
    const claimsMax = (): number => (this.#isStuck ? 8 : ROWS_PER_TRANSACTION_MAX);
    let most = claimsMax();
    this.#isStuck = false;
    // A database may keep what was collected in its index for a while: each claim begins where the one before it ended.
    let from = 0;
    while (!this.#isStuck && this.#examined < this.#maxNodes) {
      const claims = await this.#steps.claim(Math.min(this.#maxNodes - this.#examined, most), from);
      if (claims.found === 0 && from === 0) return;
      this.#count(claims.forgotten);
      const { gone, next } = await this.#finish(claims);
      from = Math.min(claims.next, next);
      // Another pass reports the claims that it finished.
      this.#examined += claims.found - gone;
      most = claimsMax();
      // Small nodes need no deletion of objects: while there are some the pass continues with few objects at a time.
      if (claims.forgotten.length > 0) this.#isStuck = false;
    }
  }

  #end(): GcResult {
    if (isDamage(this.#failure)) this.#damage ??= this.#failure;
    if (this.#damage !== undefined) {
      const message = `rows of this Space cannot be read; ${this.#deleted} other nodes were collected: the operator's check names what is damaged`;
      throw new ApiError('SERVICE_UNAVAILABLE', message, {
        retryAfterSeconds: 2,
        cause: this.#damage,
      });
    }
    if (this.#failure === undefined) {
      return {
        examined: this.#examined,
        deleted: this.#deleted,
        reclaimedContentBytes: this.#reclaimedContentBytes,
      };
    }
    const message = `the bytes of ${countOf(this.#failed, 'node')} could not be deleted; ${countOf(this.#deleted, 'node was', 'nodes were')} collected: run the collection again`;
    throw new ApiError('SERVICE_UNAVAILABLE', message, {
      retryAfterSeconds: 2,
      cause: this.#failure,
    });
  }

  async #finish(claims: Claims): Promise<FinishedClaims> {
    const finished = await this.#steps.finish(claims);
    this.#count(finished.forgotten);
    this.#failed += finished.failed;
    this.#failure ??= finished.failure;
    // Damage does not mean that the store is unavailable.
    const isAllFailed = finished.failed === claims.claimed.length && !isDamage(finished.failure);
    if (claims.claimed.length > 0) this.#isStuck = isAllFailed;
    return finished;
  }

  #count(forgotten: readonly NodeRow[]): void {
    this.#deleted += forgotten.length;
    for (const { size } of forgotten) this.#reclaimedContentBytes += size;
    this.#onForgotten(forgotten);
  }
}

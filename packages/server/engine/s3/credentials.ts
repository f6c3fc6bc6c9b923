/** Finds credentials as every AWS tool does: variables, shared files and profiles, web identity, container, instance. */

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
  readonly expiration?: Date | undefined;
}

/** Looks for credentials; rejects if there are none. */
export type CredentialProvider = () => Promise<Credentials>;

const PROVIDE_MS_MAX = 15_000;

/** Loads the provider only when it is needed: it is large, and a server without S3 does not need it. */
export async function openDefaultProvider(): Promise<CredentialProvider> {
  const { defaultProvider } = await import('@aws-sdk/credential-provider-node');
  // Reads files again each time, because they may have been replaced.
  const provide = defaultProvider({ ignoreCache: true });
  return () => provide({ forceRefresh: true });
}

/** Keeps credentials and renews them before they expire. No request waits for that while the old ones are valid. */
export class CredentialSource {
  readonly #provide: CredentialProvider;
  readonly #now: () => number;
  #current: Credentials | undefined;
  #renewing: Promise<Credentials> | undefined;
  #renewedAt = Number.NEGATIVE_INFINITY;

  constructor(provide: CredentialProvider, now: () => number) {
    this.#provide = provide;
    this.#now = now;
  }

  /** Rejects only if there are no valid credentials. */
  async get(): Promise<Credentials> {
    const current = this.#current;
    const leftMs = leftOf(current, this.#now());
    if (current === undefined || leftMs <= 0) return this.#renew();
    if (leftMs < 5 * 60_000 && this.#mayRenew()) {
      // The old credentials are still valid. If the renewal fails, the next request tries again.
      this.#renew().catch(() => undefined);
    }
    return current;
  }

  /** Called when the store refuses `refused` as expired or unknown. Resolves whether there are other credentials to try. */
  async replace(refused: Credentials): Promise<boolean> {
    const mayRenew = this.#renewing !== undefined || this.#mayRenew();
    if (this.#current === refused && mayRenew) await this.#renew();
    const { secretAccessKey, sessionToken } = this.#current ?? refused;
    return secretAccessKey !== refused.secretAccessKey || sessionToken !== refused.sessionToken;
  }

  #mayRenew(): boolean {
    // Renewals that fail, or that follow a refusal by the store, are 10 s apart.
    return this.#now() - this.#renewedAt >= 10_000;
  }

  #renew(): Promise<Credentials> {
    this.#renewing ??= this.#provideInTime().finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  async #provideInTime(): Promise<Credentials> {
    this.#renewedAt = this.#now();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const tooLate = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => reject(new Error(`no credentials within ${PROVIDE_MS_MAX} ms`)),
        PROVIDE_MS_MAX,
      );
    });
    try {
      this.#current = await Promise.race([this.#provide(), tooLate]);
      return this.#current;
    } finally {
      clearTimeout(timer);
    }
  }
}

function leftOf(credentials: Credentials | undefined, now: number): number {
  if (credentials?.expiration === undefined) return Number.POSITIVE_INFINITY;
  return credentials.expiration.getTime() - now;
}

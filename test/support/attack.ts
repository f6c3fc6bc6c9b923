/** Runs an attack in a process of its own, so that its work does not slow the honest tenant's client. */

const REQUESTS_MAX = 8_192;

export interface Attack {
  /** what it has printed so far, a JSON line each */
  lines(): string[];
  /** resolves when it has printed its first line: it is under way */
  readonly begun: Promise<void>;
  stop(): Promise<void>;
}

/** `program`: a file of test/support; `settings`: its first argument, as JSON. */
export function startAttack(program: string, settings: unknown): Attack {
  // Attackers come from other machines: they take no processor from the server, nor from the honest tenant.
  const child = Bun.spawn(['nice', '-n', '19', process.execPath, program, JSON.stringify(settings)], {
    // As many requests at once as the attack wants.
    env: { ...process.env, BUN_CONFIG_MAX_HTTP_REQUESTS: String(REQUESTS_MAX) },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'inherit',
  });
  let text = '';
  const begun = Promise.withResolvers<void>();
  begun.promise.catch(() => undefined);
  const reading = (async () => {
    const decoder = new TextDecoder();
    for await (const chunk of child.stdout) {
      text += decoder.decode(chunk, { stream: true });
      if (text.includes('\n')) begun.resolve();
    }
    begun.reject(new Error(`the attack ended before it began: ${text}`));
  })();
  return {
    lines: () => text.split('\n').slice(0, -1),
    begun: begun.promise,
    async stop() {
      child.kill('SIGKILL');
      await child.exited;
      await reading;
    },
  };
}

/** A gateway of the command line as a process. */
import { HOLDFAST } from './holdfast-command.ts';

export interface GatewayProcess {
  readonly process: Bun.Subprocess<'ignore', 'pipe', 'pipe'>;
  /** ends with a slash */
  readonly url: string;
  readonly password: string;
  readonly headers: { readonly authorization: string };
}

/** `args`: what follows `gateway`; with `--open` or `--password-file` it prints no password. Resolves when it answers. */
export async function startGateway(
  environment: Readonly<Record<string, string>>,
  ...args: readonly string[]
): Promise<GatewayProcess> {
  const started = Bun.spawn([HOLDFAST, 'gateway', ...args, '--listen', '127.0.0.1:0'], {
    env: { PATH: process.env.PATH ?? '', ...environment },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const isOpen = args.includes('--open') || args.includes('--password-file');
  let said = '';
  for await (const chunk of started.stdout) {
    said += new TextDecoder().decode(chunk);
    if (isOpen || /^password: .+\n/m.test(said)) break;
  }
  const url = /^holdfast \w+ on (\S+)$/m.exec(said)?.[1];
  const password = isOpen ? '' : /^password: (\S{24,})$/m.exec(said)?.[1];
  if (url === undefined || password === undefined)
    throw new Error(`the gateway did not start: ${said}${await new Response(started.stderr).text()}`);
  const headers = { authorization: `Basic ${btoa(`holdfast:${password}`)}` };
  return { process: started, url, password, headers };
}

/** By SIGTERM; its exit code. */
export async function endGateway({ process: started }: GatewayProcess): Promise<number> {
  started.kill('SIGTERM');
  return started.exited;
}

/** Traces by OpenTelemetry: their code is loaded only when its usual variables ask for them. */
import type { Log } from '../log.ts';
import serverPackage from '../package.json' with { type: 'json' };
import type { Tracer } from '../traces/tracer.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** `undefined`: nobody asked. Rejects with ConfigError. */
export async function openTraces(env: Environment, log: Log, worker: number): Promise<Tracer | undefined> {
  if (!areWanted(env)) return undefined;
  const { openTracer } = await import('../traces/tracer.ts');
  return openTracer({
    ...{ env, worker, version: serverPackage.version },
    reportFailure: (reason) =>
      log.warn(
        { reason },
        'traces could not be sent: check the receiver that OTEL_EXPORTER_OTLP_ENDPOINT names',
      ),
  });
}

function areWanted(env: Environment): boolean {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || env.OTEL_TRACES_EXPORTER === 'none') return false;
  return Boolean(env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || env.OTEL_EXPORTER_OTLP_ENDPOINT);
}

/** The door of the server: what the command line and tests may use. */

export { nameRows, parseDeploymentPlace, parseRowsPlace, type RowsPlace } from './deployment/place.ts';
export {
  findRegistry,
  openRegistry,
  type Registry,
} from './deployment/registry.ts';
export { ConfigError, ServeError } from './errors.ts';
export { parseServeConfig, type ServeConfig, type ServeFlags } from './serve/config.ts';
export { serve } from './serve/main.ts';
export { runWorker } from './serve/worker.ts';
export type { MigrationEvent, MigrationResult } from './transfer/events.ts';
export {
  type Migration,
  type MigrationPlan,
  migrateDeployment,
  planMigration,
} from './transfer/migrate-deployment.ts';

/** The routes for the runtime's router: every served path, matched only exactly as sent. */
import {
  BULK_OPERATIONS,
  type BulkOperationName,
  HEALTH_PATH,
  matchBulkPath,
  matchSpacePath,
  SPACE_ROUTES,
  type SpaceRoute,
} from '@holdfast/protocol';
import { isAsSent, isPlain, type Params } from '../runtime/sent-path.ts';
import { splitUrl } from './exchange.ts';
import { FRONT_PATH } from './front-page.ts';
import type { Handler } from './handler.ts';
import { UPLOADS_PATH } from './upload-target.ts';

type Routed = (request: Bun.BunRequest, server: Bun.Server<undefined>) => Response | Promise<Response>;

export function routesOf(handler: Handler): Readonly<Record<string, Routed>> {
  const spaceRoutes = SPACE_ROUTES.map((route) => {
    return [patternOf(route.path), routeToSpace(handler, route)] as const;
  });
  const bulkRoutes = Object.entries(BULK_OPERATIONS).map(([name, { path }]) => {
    return [patternOf(path), routeToBulk(handler, name as BulkOperationName)] as const;
  });
  return {
    ...Object.fromEntries(spaceRoutes),
    ...Object.fromEntries(bulkRoutes),
    [`${UPLOADS_PATH}*`]: routeTo(handler, (path) => path.startsWith(UPLOADS_PATH)),
    [HEALTH_PATH]: routeTo(handler, (path) => path === HEALTH_PATH),
    [FRONT_PATH]: routeTo(handler, (path) => path === FRONT_PATH),
  };
}

const patternOf = (path: string): string => path.replace(/\{(\w+)\}/g, ':$1');

function routeToBulk(handler: Handler, operation: BulkOperationName): Routed {
  return (request, server) => {
    const params: Params = request.params;
    const match = matchBulkPath(splitUrl(request.url).path);
    const { appId, spaceId, packId } = match ?? {};
    const isSent = match?.operation === operation && isAsSent({ appId, spaceId, packId }, params);
    return isSent ? handler.handle(request, server) : handler.refuse(request, server);
  };
}

function routeTo(handler: Handler, isPath: (path: string) => boolean): Routed {
  return (request, server) => {
    const isSent = isPath(splitUrl(request.url).path);
    return isSent ? handler.handle(request, server) : handler.refuse(request, server);
  };
}

function routeToSpace(handler: Handler, route: SpaceRoute): Routed {
  return (request, server) => {
    const { url } = request;
    const params: Params = request.params;
    if (isPlain(url, params)) {
      const { appId = '', spaceId = '', hash } = params;
      const queryAt = url.indexOf('?');
      const query = queryAt < 0 ? undefined : url.slice(queryAt + 1);
      return handler.handleSpace({ route, appId, spaceId, hash }, query, request, server);
    }
    const isSent = isPathAsSent(route, params, splitUrl(url).path);
    return isSent ? handler.handle(request, server) : handler.refuse(request, server);
  };
}

/** Whether the URL's `path` is that of the route, filled with the router's own decoded `params`. */
export function isPathAsSent(route: SpaceRoute, params: Params, path: string): boolean {
  const match = matchSpacePath(path);
  if (match?.route !== route) return false;
  const { appId, spaceId, hash } = match;
  return isAsSent({ appId, spaceId, hash }, params);
}

// Parts of this package that fuzzing calls directly. Nothing that ships imports this file.
export { BearerAuthenticator } from "./identity/bearer.ts";
export { jwtPrincipal } from "./identity/jwt-claims.ts";
export { JwtAuthenticator } from "./identity/jwt.ts";
export { bearerOf, unauthenticated } from "./identity/principal.ts";

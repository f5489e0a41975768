// Login state. No secret is stored here: the session is an HttpOnly cookie.
const KEY = "gw.logged-in";

class Session {
  /** A response was 401: show the login page. */
  missing = $state(false);
  /** The user logged in, so there is a session to end. */
  known = $state(localStorage.getItem(KEY) === "1");

  began(): void {
    localStorage.setItem(KEY, "1");
    this.known = true;
    this.missing = false;
  }

  /** The user goes to sign in elsewhere, and comes back with a session. */
  expected(): void {
    localStorage.setItem(KEY, "1");
  }

  ended(): void {
    localStorage.removeItem(KEY);
    this.known = false;
  }
}

export const session = new Session();

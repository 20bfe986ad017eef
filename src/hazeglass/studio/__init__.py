"""Both rooms in a browser, on one's own machine: a publisher's and an analyst's, which share nothing.

server        binds to 127.0.0.1, hands out the link, stops the work when it stops
guard         who may ask: the right host, the session and the page secret of the one-time link, a bounded body
folders       which files may be named: those below the folders the studio was started with
jobs, worker  long work in processes of its own, watched by server-sent events
publisher_*   the publisher's room and its worker; the only process that opens the data
analyst_*     the analyst's room and its worker
web           the pages, their style and their scripts
"""
